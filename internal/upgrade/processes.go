package upgrade

import (
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"io"
	"os"

	"github.com/openberth/berth/internal/backup"
)

// processesOf returns the processes that use the files of a part. Those of other users are found by root only.
func processesOf(p backup.Part) (list []Process) {
	if p.Path == "" || p.Name == backup.Images { // of the images, files are open only while they are sent
		return nil
	}
	own := sumOf("/proc/self/exe")
	for _, u := range backup.Users(p.Path) {
		exe := fmt.Sprintf("/proc/%d/exe", u.PID)
		one := Process{PID: u.PID, Name: u.Name, Part: p.Name, Program: "its program cannot be read"}
		if path, err := os.Readlink(exe); err == nil {
			one.Program = path + versionOf(exe)
			one.Same = own != "" && sumOf(exe) == own
		}
		list = append(list, one)
	}
	return list
}

// versionOf returns what Go has recorded of the version of a program, as the end of a clause; empty: nothing.
func versionOf(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	text := " " + info.Main.Version
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			text += " " + s.Value
		}
	}
	return text
}

// sumOf returns the sum of a file; empty if it cannot be read.
func sumOf(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return ""
	}
	return string(sum.Sum(nil))
}
