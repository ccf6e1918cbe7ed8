package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// bill writes the bill of materials of the binary of an architecture, as CycloneDX: the modules that the binary
// records.
func (b *build) bill(arch string) error {
	path, err := b.binary(arch)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(data)
	root := cyclonedx.Component{BOMRef: "berth", Type: cyclonedx.ComponentTypeApplication, Name: "berth",
		Version: b.version, PackageURL: "pkg:golang/" + info.Main.Path + "@" + b.version,
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}},
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}}
	standard := cyclonedx.Component{BOMRef: "std", Type: cyclonedx.ComponentTypeLibrary, Name: "std",
		Version: strings.TrimPrefix(info.GoVersion, "go"), PackageURL: "pkg:golang/std@" + info.GoVersion}
	terms, err := b.licences(arch)
	if err != nil {
		return err
	}
	standard.Licenses = terms[0].listed()
	components, needed := []cyclonedx.Component{standard}, []string{"std"}
	for i, module := range info.Deps {
		component, err := componentOf(module)
		if err != nil {
			return err
		}
		component.Licenses = terms[i+1].listed()
		components, needed = append(components, component), append(needed, component.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	// The number follows from the binary, as all else, so that a second build has the same.
	bom.SerialNumber = "urn:uuid:" + uuidOf(sum)
	bom.Metadata = &cyclonedx.Metadata{Timestamp: b.time.Format(time.RFC3339), Component: &root}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: "berth", Dependencies: &needed}}
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(bom); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "berth_"+b.version+"_linux_"+arch+".cdx.json"), out.Bytes(), 0o644)
}

// listed returns the licences in the form of a bill of materials.
func (l licence) listed() *cyclonedx.Licenses {
	var all cyclonedx.Licenses
	for _, id := range l.ids {
		all = append(all, cyclonedx.LicenseChoice{License: &cyclonedx.License{ID: id}})
	}
	return &all
}

// uuidOf returns a UUID of version 8, whose bits are those of a checksum.
func uuidOf(sum [sha256.Size]byte) string {
	sum[6], sum[8] = sum[6]&0x0f|0x80, sum[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// componentOf returns a module with the hash of its files that go.sum has.
func componentOf(module *debug.Module) (cyclonedx.Component, error) {
	url := "pkg:golang/" + module.Path + "@" + module.Version
	component := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: module.Path,
		Version: module.Version, PackageURL: url}
	text, found := strings.CutPrefix(module.Sum, "h1:")
	hash, err := base64.StdEncoding.DecodeString(text)
	if !found || err != nil {
		return component, fmt.Errorf("the binary has no checksum of %s", module.Path)
	}
	component.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(hash)}}
	return component, nil
}
