# The table of scripts/openmpi-loop: gains of a tuning file, cell by cell, with their intervals.
#
# Lines: HOSTS LAUNCH own|file COLLECTIVE BYTES NANOSECONDS. Exit status 0 where the geometric mean
# is 2.3 or more, no interval lies below 1, and no gain below 0.97; 2 where the lines are no times of a run.

NF != 6 || $3 !~ /^(own|file)$/ || $6 + 0 <= 0 {
    printf "error: line %d is no `HOSTS LAUNCH own|file COLLECTIVE BYTES NS`: %s\n", NR, $0 > "/dev/stderr"
    bad = 1
    exit
}
{
    cell = $1 " " $4 " " $5
    if (!(cell in launches)) cells[++many] = cell
    if (!((cell, $2) in seen)) { seen[cell, $2] = 1; launch[cell, ++launches[cell]] = $2 }
    time[cell, $2, $3] = $6
}

# Ascending, v[1] to v[n].
function sort(v, n,    i, j, x) {
    for (i = 2; i <= n; i++) {
        x = v[i]
        for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
        v[j + 1] = x
    }
}

function median(v, n) {
    return (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
}

# The k for which the k-th least and the k-th greatest of n hold the median with 95 % or more: both
# ends together miss it with 2·P(Binomial(n, 1/2) < k). 0: n is too small.
function rank_of(n,    k, chance, below) {
    chance = 2 ^ -n
    below = 0
    for (k = 0; k < n / 2; k++) {
        below += chance
        if (2 * below > 0.05) return k
        chance *= (n - k) / (k + 1)
    }
    return k
}

function size(bytes) {
    return bytes % 1048576 ? bytes / 1024 " KiB" : bytes / 1048576 " MiB"
}

END {
    if (bad) exit 2
    if (!many) { print "error: no times" > "/dev/stderr"; exit 2 }
    print "| hosts | collective | size | own, ms | file, ms | gain | 95 % interval |"
    print "|---|---|---|---|---|---|---|"
    for (c = 1; c <= many; c++) {
        cell = cells[c]
        n = launches[cell]
        for (i = 1; i <= n; i++) {
            l = launch[cell, i]
            if (!((cell, l, "own") in time) || !((cell, l, "file") in time)) {
                printf "error: launch %s of %s has one side only\n", l, cell > "/dev/stderr"
                exit 2
            }
            own[i] = time[cell, l, "own"]
            file[i] = time[cell, l, "file"]
            gain[i] = own[i] / file[i]
        }
        sort(own, n); sort(file, n); sort(gain, n)
        k = rank_of(n)
        if (!k) { printf "error: %d launches give no interval\n", n > "/dev/stderr"; exit 2 }
        low = gain[k]
        high = gain[n + 1 - k]
        middle = median(gain, n)
        sum += log(middle)
        split(cell, word, " ")
        hosts_sum[word[1]] += log(middle)
        hosts_many[word[1]]++
        if (!(word[1] in known)) { known[word[1]] = 1; order[++kinds] = word[1] }
        if (middle < 0.97) lost = lost sprintf("%s%s hosts %s %s", lost ? ", " : "", word[1], word[2], size(word[3]))
        if (high < 1) worse = worse sprintf("%s%s hosts %s %s", worse ? ", " : "", word[1], word[2], size(word[3]))
        printf "| %s | %s | %s | %.1f | %.1f | %.2f | %.2f to %.2f |\n", word[1], word[2], \
            size(word[3]), median(own, n) / 1e6, median(file, n) / 1e6, middle, low, high
    }
    print ""
    for (i = 1; i <= kinds; i++)
        printf "%s hosts: geometric mean %.2f over %d cells\n", order[i], \
            exp(hosts_sum[order[i]] / hosts_many[order[i]]), hosts_many[order[i]]
    mean = exp(sum / many)
    printf "geometric mean %.2f over %d cells (asked: 2.30)\n", mean, many
    printf "intervals wholly below 1: %s\n", worse ? worse : "none"
    printf "gains below 0.97: %s\n", lost ? lost : "none"
    passes = mean >= 2.3 && !worse && !lost
    print passes ? "passed" : "failed"
    exit !passes
}
