//! The styles and scripts of the page, and the security policy that allows only these.

/// The styles of uPlot, of the pictures and of the page.
const STYLES: [&str; 3] = [
    include_str!("../../assets/uPlot.min.css"),
    crate::plot::STYLE,
    include_str!("page.css"),
];

/// uPlot, and the script that draws the plots with it.
const SCRIPTS: [&str; 2] = [
    include_str!("../../assets/uPlot.iife.min.js"),
    include_str!("page.js"),
];

/// SHA-256 of each style in base64. A failing test prints the current values.
const STYLE_HASHES: [&str; 3] = [
    "32MMao1vjur/JktQ9zzlsRT2Rv/ZoLt08EmwoAE1+gQ=",
    "6V26I3IxUpofbaI3BaxXG57N9TqB0bCowfyFCyy1624=",
    "zGxDhfMicvr/1GhJXw+cyx7Eag1+wDBGXjrMR1+pWnU=",
];

/// SHA-256 of each script in base64.
const SCRIPT_HASHES: [&str; 2] = [
    "GcjUxq2Ikpp59K5J1vcWFWbf0Lo9FcxJXpdPeH63jx8=",
    "O1WmEbShQo9FPZ81v9eVvLEMl0C0zuapujVmymUPq14=",
];

/// Returns the Content-Security-Policy: the page loads nothing and runs only these scripts. Text
/// from a peer cannot add a script.
pub(super) fn content_security_policy() -> String {
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

/// Returns the `style` elements.
pub(super) fn styles() -> String {
    STYLES
        .map(|style| format!("<style>{style}</style>\n"))
        .concat()
}

/// Returns the `script` elements.
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
    fn hashes_match_the_files() {
        let hash = |text: &str| {
            let digest = sha2::Sha256::digest(text.as_bytes());
            base64::engine::general_purpose::STANDARD.encode(digest)
        };
        assert_eq!(STYLES.map(hash), STYLE_HASHES);
        assert_eq!(SCRIPTS.map(hash), SCRIPT_HASHES);
    }

    /// A `</` would end the element that contains the file.
    #[test]
    fn no_file_ends_its_element() {
        for text in STYLES.into_iter().chain(SCRIPTS) {
            let text = text.to_lowercase();
            assert!(!text.contains("</") && !text.contains("<!--"));
        }
    }
}
