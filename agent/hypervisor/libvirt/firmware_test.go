package libvirt

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/openberth/berth/agent/hypervisor"
	"github.com/openberth/berth/agent/hypervisor/hypervisortest"
	"github.com/openberth/berth/agent/imagecache"
	"github.com/openberth/berth/fault"
	"github.com/openberth/berth/internal/libvirtd"
	"github.com/openberth/berth/internal/testenv"
)

// efiText is what the boot loader of the image of efiGuest prints.
const efiText = "booted by UEFI\n"

// efiGuest returns a guest with UEFI.
func efiGuest(digit, secureBoot string) hypervisor.Guest {
	g := hypervisortest.Guest(digit)
	g.Image, g.DiskGB, g.VCPUs, g.MemoryMB = rawImage, 1, 1, 256
	g.Hardware = hypervisor.Hardware{Firmware: "uefi", SecureBoot: secureBoot}
	return g
}

// putEFIImage makes the image of efiGuest.
func putEFIImage(t *testing.T, d *Driver) {
	t.Helper()
	base := d.path("_base")
	d.o.Images = imagecache.New(base, nil, slog.New(slog.DiscardHandler))
	must(t, os.MkdirAll(base, 0o711))
	must(t, os.WriteFile(filepath.Join(base, rawImage+".raw"), libvirtd.EFIDisk(efiText), 0o644))
}

// commandLine returns the command line of the QEMU of a driver's domain. Other tests have domains with the same UUID.
func commandLine(t *testing.T, d *Driver, domain string) string {
	t.Helper()
	dir := d.path(domain) + "/"
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, line := range lines {
		text, err := os.ReadFile(line)
		if err == nil && strings.Contains(string(text), "-uuid\x00"+domain) && strings.Contains(string(text), dir) {
			return strings.ReplaceAll(string(text), "\x00", " ")
		}
	}
	t.Fatalf("no QEMU runs the domain %s", domain)
	return ""
}

// nvramMarker is what the tests write to the end of an NVRAM, which the firmware does not use.
var nvramMarker = []byte("boot entries and keys")

func markNVRAM(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	defer file.Close()
	status, err := file.Stat()
	must(t, err)
	_, err = file.WriteAt(nvramMarker, status.Size()-int64(len(nvramMarker)))
	must(t, err)
}

func hasNVRAM(t *testing.T, path string, marked bool) {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	if got := bytes.HasSuffix(content, nvramMarker); got != marked {
		t.Errorf("%s has the marker: %v", path, got)
	}
}

// TestUEFI boots a guest by UEFI. Its NVRAM survives stops and a lost definition, a missing one is not made again, and
// a rebuild makes a new one.
func TestUEFI(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	dir := daemon.GuestDir(t)
	d := open(t, daemon, dir)
	putEFIImage(t, d)
	g := efiGuest("a", "")
	must(t, d.Build(t.Context(), g))
	awaitText(t, d.path(g.ID, "console.log"), efiText)
	line := commandLine(t, d, g.ID)
	nvram := d.path(g.ID, "nvram-0.fd")
	for _, part := range []string{"/usr/share/OVMF/OVMF_CODE_4M.fd", nvram, "pflash0=", "pflash1="} {
		if !strings.Contains(line, part) {
			t.Errorf("no %s in the command line:\n%s", part, line)
		}
	}
	wantGuests(t, d, g)

	g.Stopped = true
	must(t, d.Build(t.Context(), g))
	markNVRAM(t, nvram)
	c := dial(t, daemon)
	undefine(t, c, g)
	for _, stopped := range []bool{true, false, true} {
		g.Stopped = stopped
		must(t, d.Build(t.Context(), g))
		wantGuests(t, d, g)
		hasNVRAM(t, nvram, true)
	}
	must(t, os.Rename(nvram, nvram+".away"))
	g.Stopped = false
	if err := d.Build(t.Context(), g); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "is missing") {
		t.Errorf("without the NVRAM: %v", err)
	}
	must(t, os.Rename(nvram+".away", nvram))
	must(t, d.Build(t.Context(), g))
	hasNVRAM(t, nvram, true)
	g.Build = 1
	must(t, d.Build(t.Context(), g))
	hasNVRAM(t, d.path(g.ID, "nvram-1.fd"), false)
	must(t, d.Destroy(t.Context(), g.ID))
	if _, err := os.Stat(d.path(g.ID)); !os.IsNotExist(err) {
		t.Errorf("files remain: %v", err)
	}
}

// TestSecureBoot boots an unsigned boot loader: the firmware refuses it with secure boot.
func TestSecureBoot(t *testing.T) {
	t.Parallel()
	daemon := libvirtd.Start(t)
	d := open(t, daemon, daemon.GuestDir(t))
	putEFIImage(t, d)
	for _, secureBoot := range []string{"required", "optional"} {
		g := efiGuest("a", secureBoot)
		must(t, d.Build(t.Context(), g))
		awaitText(t, d.path(g.ID, "console.log"), "Access Denied")
		if text, err := os.ReadFile(d.path(g.ID, "console.log")); err != nil || bytes.Contains(text, []byte(efiText)) {
			t.Errorf("the unsigned boot loader was started: %v\n%s", err, text)
		}
		line := commandLine(t, d, g.ID)
		for _, part := range []string{"smm=on", "cfi.pflash01", "OVMF_CODE_4M.ms.fd", "nvram-0-secure.fd"} {
			if !strings.Contains(line, part) {
				t.Errorf("no %s in the command line:\n%s", part, line)
			}
		}
		wantGuests(t, d, g)
		must(t, d.Destroy(t.Context(), g.ID))
	}
}

// TestHostWithoutFirmware builds and moves guests with UEFI to a host without firmware for them: that is final, so that
// another host is tried, and the host keeps nothing.
func TestHostWithoutFirmware(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	b.o.FirmwareDirs = []string{t.TempDir()}
	for _, secureBoot := range []string{"", "optional", "required"} {
		g := efiGuest("c", secureBoot)
		for name, build := range map[string]func() error{"build": func() error { return b.Build(t.Context(), g) },
			"receive": func() error { return b.Receive(t.Context(), g) }} {
			if err := build(); !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), "install ovmf") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	g, _ := movingEFI(t, a, "")
	err := b.Build(t.Context(), g)
	if !fault.Is(err, fault.Conflict) || !strings.Contains(err.Error(), " bytes described in ") {
		t.Errorf("moved: %v", err)
	}
	wantGuests(t, b.Driver)
	if _, err := os.Stat(b.path(g.ID)); !os.IsNotExist(err) {
		t.Errorf("files remain: %v", err)
	}
	wantFiles(t, b.path(incomingDir))
}

// movingEFI is moving with UEFI and a marker in the NVRAM.
func movingEFI(t *testing.T, a site, secureBoot string) (g hypervisor.Guest, id string) {
	t.Helper()
	g, id = efiGuest("a", secureBoot), hypervisortest.ID("e")
	g.Stopped = true
	must(t, a.Build(t.Context(), g))
	markNVRAM(t, a.path(g.ID, nvramName(0, secureBoot != "")))
	must(t, a.Rename(t.Context(), g.ID, id, g.ID))
	g.DiskFrom = &hypervisor.DiskSource{Host: a.name, Guest: id}
	return g, id
}

// TestNVRAMMovesWithTheGuest moves guests with UEFI to another host and resizes them on their own. The NVRAM comes with
// the disk; one for which secure boot begins is new, and has the keys.
func TestNVRAMMovesWithTheGuest(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	for _, secureBoot := range []string{"", "required"} {
		g, id := movingEFI(t, a, secureBoot)
		for range 2 {
			must(t, b.Build(t.Context(), g))
		}
		wantGuests(t, b.Driver, listed(g))
		name := nvramName(0, secureBoot != "")
		hasNVRAM(t, b.path(g.ID, name), true)
		hasNVRAM(t, a.path(g.ID, name), true)
		wantFiles(t, b.path(incomingDir))
		g.Stopped = false
		must(t, b.Build(t.Context(), g))
		hasNVRAM(t, b.path(g.ID, name), true)
		must(t, b.Destroy(t.Context(), g.ID)) // reverted
		must(t, a.Rename(t.Context(), id, g.ID, ""))
		hasNVRAM(t, a.path(g.ID, name), true)
		must(t, a.Destroy(t.Context(), g.ID))
	}
	g, id := movingEFI(t, a, "")
	g.DiskFrom.Host = a.o.Host // a resize on the same host
	must(t, a.Build(t.Context(), g))
	domains, _, err := a.list(t.Context(), dial(t, a.daemon))
	must(t, err)
	made, _ := find(domains, g.ID)
	hasNVRAM(t, a.path(made.UUID.String(), nvramName(0, false)), true)
	must(t, a.Destroy(t.Context(), id))

	must(t, a.Rename(t.Context(), g.ID, id, g.ID))
	g.DiskFrom.Host, g.Hardware.SecureBoot = a.name, "required"
	must(t, b.Build(t.Context(), g))
	hasNVRAM(t, b.path(g.ID, nvramName(0, true)), false)
}

// TestFirmwareBelongsToTheDisk builds guests that exist with BIOS, as those whose property was ignored: they keep it.
func TestFirmwareBelongsToTheDisk(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	g, id := moving(t, a)
	bios := listed(g)
	g.Hardware.Firmware = "uefi"
	must(t, b.Build(t.Context(), g))
	must(t, b.Build(t.Context(), g))
	wantGuests(t, b.Driver, bios)
	must(t, a.Destroy(t.Context(), id))

	g.Stopped, g.DiskFrom, bios.Stopped = false, nil, false
	must(t, b.Build(t.Context(), g))
	must(t, a.Receive(t.Context(), g)) // it migrates back
	must(t, b.Rename(t.Context(), g.ID, id, g.ID))
	must(t, b.Migrate(t.Context(), id, hypervisor.Destination{Host: a.name}))
	wantGuests(t, a.Driver, bios)
	must(t, a.Build(t.Context(), g))
	wantGuests(t, a.Driver, bios)
}

// TestNVRAMMigratesWithTheGuest migrates a running guest whose firmware has written its NVRAM.
func TestNVRAMMigratesWithTheGuest(t *testing.T) {
	t.Parallel()
	a, b := openPair(t)
	putEFIImage(t, a.Driver)
	putEFIImage(t, b.Driver)
	g := efiGuest("a", "")
	must(t, a.Build(t.Context(), g))
	awaitText(t, a.path(g.ID, "console.log"), efiText)
	nvram := func(s site) []byte {
		content, err := os.ReadFile(s.path(g.ID, nvramName(0, false)))
		must(t, err)
		return content
	}
	before := nvram(a)
	template, err := os.ReadFile("/usr/share/OVMF/OVMF_VARS_4M.fd")
	if err != nil || bytes.Equal(before, template) {
		t.Fatalf("the firmware has not written the NVRAM: %v", err)
	}
	migrated(t, g, a, b)
	testenv.Until(t, "the NVRAM has arrived", func() bool { return bytes.Equal(nvram(b), before) })
	if line := commandLine(t, b.Driver, g.ID); !strings.Contains(line, b.path(g.ID, nvramName(0, false))) {
		t.Errorf("the NVRAM is not that of the destination:\n%s", line)
	}
	g.Stopped = true
	must(t, b.Build(t.Context(), g))
	g.Stopped = false
	must(t, os.Truncate(b.path(g.ID, "console.log"), 0))
	must(t, b.Build(t.Context(), g))
	awaitText(t, b.path(g.ID, "console.log"), efiText)
}

// TestReadFirmware reads descriptions of QEMU.
func TestReadFirmware(t *testing.T) {
	files, vendor, own := t.TempDir(), t.TempDir(), t.TempDir()
	code, vars := filepath.Join(files, "code.fd"), filepath.Join(files, "vars.fd")
	for _, file := range []string{code, vars} {
		must(t, os.WriteFile(file, []byte("four"), 0o600))
	}
	write := func(dir, name, features, mapping, machines string) {
		must(t, os.WriteFile(filepath.Join(dir, name), fmt.Appendf(nil, `{"interface-types": ["uefi"], "mapping": {%s,
			"executable": {"filename": %q, "format": "raw"}, "nvram-template": {"filename": %q, "format": "raw"}},
			"targets": [{"architecture": "x86_64", "machines": [%q]}], "features": [%s]}`, mapping, code, vars, machines,
			features), 0o600))
	}
	const flash = `"device": "flash"`
	write(vendor, "10-secure.json", `"secure-boot", "enrolled-keys", "requires-smm"`, flash, "pc-q35-*")
	write(vendor, "20-without-keys.json", `"secure-boot", "requires-smm"`, flash, "pc-q35-*")
	write(vendor, "30-stateless.json", ``, flash+`, "mode": "stateless"`, "pc-q35-*")
	write(vendor, "40-memory.json", ``, `"device": "memory"`, "pc-q35-*")
	write(vendor, "50-pc.json", ``, flash, "pc-i440fx-*")
	write(vendor, "60-plain.json", ``, flash+`, "mode": "split"`, "pc-q35-7.*")
	write(vendor, "70-removed.json", ``, flash, "pc-q35-*")
	write(own, "05-damaged.json", `"`, flash, "pc-q35-*")
	must(t, os.WriteFile(filepath.Join(own, "70-removed.json"), nil, 0o600))
	secure, plain := firmware{code, vars, 4, true}, firmware{code, vars, 4, false}
	for machine, want := range map[string][]firmware{"": {secure}, "q35": {secure}, "pc-q35-7.2": {secure, plain},
		"pc-i440fx-7.2": {plain}, "virt": nil} {
		if got := readFirmware([]string{vendor, own}, machine); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", machine, got, want)
		}
	}
	d := directory{&Options{Dir: t.TempDir(), FirmwareDirs: []string{vendor}}}
	g := efiGuest("a", "optional")
	g.Hardware.Machine = "pc-q35-7.2"
	domain := uuid.New()
	if f, nvram, err := d.firmwareOf(domain, g, 0); err != nil || !f.secure || filepath.Base(nvram) != nvramName(0, true) {
		t.Errorf("optional: %+v %s %v", f, nvram, err)
	}
	if _, _, err := d.firmwareOf(domain, g, 5); !fault.Is(err, fault.Conflict) {
		t.Errorf("of another size: %v", err)
	}
	must(t, d.makeDir(domain.String()))
	must(t, os.WriteFile(d.path(domain.String(), nvramName(0, false)), []byte("four"), 0o600))
	if f, nvram, err := d.firmwareOf(domain, g, 0); err != nil || f.secure || filepath.Base(nvram) != nvramName(0, false) {
		t.Errorf("with an NVRAM without secure boot: %+v %s %v", f, nvram, err)
	}
}
