//! The page's styles and scripts, and the policy that lets a browser use these and nothing else.

/// uPlot's, then the pictures', and then the page's.
const STYLES: [&str; 3] = [
    include_str!("../../assets/uPlot.min.css"),
    crate::plot::STYLE,
    include_str!("page.css"),
];

/// uPlot, and then what draws the plots with it.
const SCRIPTS: [&str; 2] = [
    include_str!("../../assets/uPlot.iife.min.js"),
    include_str!("page.js"),
];

/// SHA-256 of each style in base64: a test prints them anew.
const STYLE_HASHES: [&str; 3] = [
    "32MMao1vjur/JktQ9zzlsRT2Rv/ZoLt08EmwoAE1+gQ=",
    "6V26I3IxUpofbaI3BaxXG57N9TqB0bCowfyFCyy1624=",
    "zGxDhfMicvr/1GhJXw+cyx7Eag1+wDBGXjrMR1+pWnU=",
];

/// The same of each script.
const SCRIPT_HASHES: [&str; 2] = [
    "GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8=",
    "O1WmEbShQo9FPZ81v9eVvLEMl0C0zuapujVmymUPq14=",
];

/// The page may load nothing, and runs these scripts alone: a text that somebody sent cannot add one.
pub(super) fn policy() -> String {
    let sources = |hashes: &[&str]| {
        let sources = hashes.iter().map(|hash| format!("'sha256-{hash}'"));
        sources.collect::<Vec<_>>().join(" ")
    };
    format!(
        "default-src 'none'; base-uri 'none'; form-action 'none'; img-src data:; style-src {}; script-src {}",
        sources(&STYLE_HASHES),
        sources(&SCRIPT_HASHES)
    )
}

/// The elements that hold the styles.
pub(super) fn styles() -> String {
    STYLES
        .map(|style| format!("<style>{style}</style>\n"))
        .concat()
}

/// The elements that hold the scripts.
pub(super) fn scripts() -> String {
    SCRIPTS
        .map(|script| format!("<script>{script}</script>\n"))
        .concat()
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use sha2::Digest as _;

    use super::*;

    #[test]
    fn hashes_are_those_of_the_files() {
        let hash = |text: &str| {
            let digest = sha2::Sha256::digest(text.as_bytes());
            base64::engine::general_purpose::STANDARD.encode(digest)
        };
        assert_eq!(STYLES.map(hash), STYLE_HASHES);
        assert_eq!(SCRIPTS.map(hash), SCRIPT_HASHES);
    }

    /// A text in an element ends where its end tag is found.
    #[test]
    fn no_file_ends_its_element() {
        for text in STYLES.into_iter().chain(SCRIPTS) {
            let text = text.to_lowercase();
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
