package main

import (
	"strconv"

	"github.com/openberth/berth/cli"
	"github.com/openberth/berth/internal/app"
)

type agentImagesCmd struct{ files }

// Run prints the copies of images on this host, the least recently used first, and the limit.
func (c *agentImagesCmd) Run(g *cli.Globals, s streams) error {
	conf, _, err := c.read(s)
	if err != nil {
		return err
	}
	copies, err := app.CachedImages(conf)
	if err != nil {
		return err
	}
	type shown struct {
		Image    string `json:"image"`
		Bytes    int64  `json:"bytes"`
		Used     bool   `json:"used"`
		Complete bool   `json:"complete"`
		LastUsed string `json:"last_used_at"`
	}
	docs, rows, sum := []shown{}, [][]string{}, int64(0)
	for _, one := range copies {
		docs = append(docs, shown{one.Image, one.Bytes, one.Used, one.Complete, cli.UTCTime(one.LastUsed)})
		state := "not used"
		switch {
		case one.Used:
			state = "used by guests"
		case !one.Complete:
			state = "not complete"
		}
		rows = append(rows, []string{one.Image, mebibytes(one.Bytes), state, cli.LocalTime(one.LastUsed)})
		sum += one.Bytes
	}
	if err := cli.Print(g, docs, []string{"Image", "Disk", "State", "Last used"}, rows); err != nil || g.Output == "json" {
		return err
	}
	limit := "without a limit"
	if conf.Libvirt.ImageCacheMax > 0 {
		limit = "of at most " + mebibytes(int64(conf.Libvirt.ImageCacheMax)) + " ([DEFAULT] image_cache_max_size)"
	}
	_, err = s.out.Write([]byte(mebibytes(sum) + " " + limit + "\n"))
	return err
}

// mebibytes returns a size in MiB, rounded up.
func mebibytes(bytes int64) string { return strconv.FormatInt((bytes+1<<20-1)>>20, 10) + " MiB" }
