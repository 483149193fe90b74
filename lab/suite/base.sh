# What linerate does on any host, here against the original in both roles, in all four pairings.

tcp_rr() {
    serve "$2"
    client "$1" -t TCP_RR -l -200 -P 0 >out
    cat out
    within "transactions a second" "$(awk 'NF == 6 { print $6 }' out)" 1 1e7
}

for near in ours stock; do
    for far in ours stock; do
        if [ $near$far != oursours ] && ! has stock; then
            skip "base.tcp_rr.$near.$far" "no stock netperf here"
            continue
        fi
        try "base.tcp_rr.$near.$far" tcp_rr $near $far
    done
done
