package main

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openberth/berth/api/compute"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// A server is deleted while its live migration copies: the copy is aborted, and neither host has a domain or a file of
// it.
func TestLibvirtDeleteDuringLiveMigration(t *testing.T) {
	t.Parallel()
	a, b := libvirtd.StartPair(t)
	m := newMigrationLab(t, a, b, buildLinux(t))
	m.startAgents("live_migration_bandwidth = 1\n")
	s := m.startCounter()
	from, to := "cmp1", "cmp2"
	if *s.Host == to {
		from, to = to, from
	}
	m.console(t, from, s.ID, 3)
	must(t, m.compute.compute().Act(t.Context(), s.ID, "os-migrateLive", migrateTo(to)))
	m.awaitCopying(to, s.ID)
	m.delete(s)
	m.awaitNoGuest(from, s.ID)
	m.awaitNoGuest(to, s.ID)
	if log := m.agents[from].log.String(); strings.Contains(log, "guest migrated") {
		t.Errorf("the copy was completed:\n%s", log)
	}
}

// stuckImages is an image service whose downloads end only with their callers.
type stuckImages struct {
	service  http.Handler // for all other requests
	begun    chan struct{}
	finished chan struct{}
}

// ServeHTTP implements http.Handler.
func (s *stuckImages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.HasSuffix(r.URL.Path, "/file") {
		s.service.ServeHTTP(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", "1048576")
	if _, err := w.Write(make([]byte, 4096)); err == nil {
		err = http.NewResponseController(w).Flush()
		if err == nil {
			s.begun <- struct{}{}
			<-r.Context().Done()
		}
	}
	s.finished <- struct{}{}
}

// A server is deleted while its image is downloaded: the download ends, and nothing of the server is left. The part of
// the image stays in the cache.
func TestLibvirtDeleteDuringDownload(t *testing.T) {
	t.Parallel()
	virt, dir := libvirtd.Start(t), t.TempDir()
	images := start(t, []string{"image"}, "image", "--config-file", machineless(t, dir), "--data-dir", dir+"/images",
		"--listen", "127.0.0.1:0")
	service, err := url.Parse(images.urls["image"])
	must(t, err)
	stuck := &stuckImages{service: httputil.NewSingleHostReverseProxy(service), begun: make(chan struct{}, 9),
		finished: make(chan struct{}, 9)}
	proxy := httptest.NewServer(stuck)
	t.Cleanup(proxy.Close)
	f := newFleet(t, aliases+pciInPlacement+"\n[glance]\nendpoint_override = "+images.urls["image"]+"\n")
	l := &libvirtHost{fleet: f, virt: virt, instances: virt.GuestDir(t)}
	l.more = "\n[glance]\nendpoint_override = " + proxy.URL + "\n"
	f.startAgent("cmp1", l.conf())
	disk := f.path("disk.img")
	must(t, os.WriteFile(disk, make([]byte, 1<<20), 0o600))
	image := addImage(t, disk, images.urls["image"])
	c := f.compute.compute()
	flavor, err := c.CreateFlavor(t.Context(), compute.CreateFlavor{Name: "small", VCPUs: 1, RAM: 64, Disk: 1})
	must(t, err)
	s, err := c.CreateServer(t.Context(), compute.CreateServer{Name: "doomed", Flavor: flavor.ID, Image: image})
	must(t, err)
	<-stuck.begun
	must(t, c.DeleteServer(t.Context(), s.ID))
	<-stuck.finished
	testenv.Until(t, "the server is deleted", func() (bool, error) {
		all, err := c.Servers(t.Context(), compute.ListServers{})
		return len(all) == 0, err
	})
	domains, err := l.dial().Domains(t.Context())
	must(t, err)
	if len(domains) != 0 {
		t.Errorf("domains %v", domains)
	}
	left, err := filepath.Glob(filepath.Join(l.instances, "*", "*"))
	must(t, err)
	for _, name := range left { // a later download of the image continues
		if !strings.HasSuffix(name, "/hosts/cmp1") && name != filepath.Join(l.instances, "_base", image+".part-cmp1") {
			t.Errorf("%s is left", name)
		}
	}
}
