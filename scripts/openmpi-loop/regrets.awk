# What the tuning file of scripts/openmpi-loop misses: of each cell, the file's time over the least of
# all algorithms.
#
# First the lines of the search: HOSTS ALGORITHM.SEGMENT forced COLLECTIVE BYTES NANOSECONDS; then those
# of the launches. A time is the median of the file's launches. Exit status 0 where 95 % of the cells are
# within 3 %.

{ cell = $1 " " $4 " " $5 }
$3 == "forced" {
    if (!(cell in least) || $6 < least[cell]) { least[cell] = $6; by[cell] = $2 }
    next
}
$3 == "file" { if (!(cell in count)) cells[++many] = cell; time[cell, ++count[cell]] = $6 }

END {
    if (!many) { print "error: no times" > "/dev/stderr"; exit 2 }
    print ""
    print "| hosts | collective | size | file, ms | least, ms | by algorithm.segment | file over least |"
    print "|---|---|---|---|---|---|---|"
    for (c = 1; c <= many; c++) {
        cell = cells[c]
        n = count[cell]
        for (i = 1; i <= n; i++) v[i] = time[cell, i]
        for (i = 2; i <= n; i++) {
            x = v[i]
            for (j = i - 1; j > 0 && v[j] > x; j--) v[j + 1] = v[j]
            v[j + 1] = x
        }
        middle = (v[int((n + 1) / 2)] + v[int(n / 2) + 1]) / 2
        regret = middle / least[cell]
        near += regret <= 1.03
        split(cell, word, " ")
        printf "| %s | %s | %d KiB | %.1f | %.1f | %s | %.3f |\n", word[1], word[2], word[3] / 1024, \
            middle / 1e6, least[cell] / 1e6, by[cell], regret
    }
    printf "\nwithin 3 %% of the least of all: %d of %d cells (asked: 95 %%)\n", near, many
    exit !(near >= 0.95 * many)
}
