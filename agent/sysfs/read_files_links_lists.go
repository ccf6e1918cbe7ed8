package sysfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"
)

// maxFile is the maximum size of a file that is read: an attribute in /sys has at most a page (up to 64 KiB), vital
// product data 32 KiB.
const maxFile = 64 << 10

// Reasons why something cannot be read. They do not depend on the file system, so that a captured machine gives the
// same ones.
var (
	errIsDirectory = errors.New("it is a directory")
	errIsNoLink    = errors.New("it is not a link")
	errTooLarge    = errors.New("it is larger than 64 KiB")
)

// attribute is the content of a file without the blanks around it.
type attribute struct {
	text  string
	there bool // the file exists
}

// readAttribute reads a file. A file that does not exist is not an error. The error is the bare reason: it names no
// file.
func readAttribute(fsys fs.FS, name string) (attribute, error) {
	data, there, err := readData(fsys, name)
	return attribute{text: strings.TrimSpace(string(data)), there: there}, err
}

// readData reads a file of at most maxFile bytes. there is false when it does not exist, which is not an error. The
// error is the bare reason.
func readData(fsys fs.FS, name string) (data []byte, there bool, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		if absent(err) {
			return nil, false, nil
		}
		return nil, true, reason(err)
	}
	defer func() { _ = f.Close() }()
	if data, err = io.ReadAll(io.LimitReader(f, maxFile+1)); err != nil {
		if info, statErr := f.Stat(); statErr == nil && info.IsDir() {
			err = errIsDirectory
		}
		return nil, true, reason(err)
	}
	if len(data) > maxFile {
		return nil, true, errTooLarge
	}
	return data, true, nil
}

// readLink returns the last element of the path that a link has, "" when there is no link. The error is the bare
// reason.
func readLink(fsys fs.FS, name string) (last string, err error) {
	target, err := fs.ReadLink(fsys, name)
	if absent(err) {
		return "", nil
	}
	if err != nil {
		return "", linkReason(err)
	}
	return lastElement(target), nil
}

// linkReason returns the bare reason why a link cannot be read.
func linkReason(err error) error {
	if errors.Is(err, fs.ErrInvalid) || errors.Is(err, syscall.EINVAL) {
		return errIsNoLink
	}
	return reason(err)
}

// lastElement is path.Base, but never a slash: "/" has the last element ".".
func lastElement(target string) string {
	if last := path.Base(target); last != "/" {
		return last
	}
	return "."
}

// list returns the entries of a directory by name, none when it does not exist or is a file. The error is the bare
// reason.
func list(fsys fs.FS, dir string) ([]fs.DirEntry, error) {
	entries, err := fs.ReadDir(fsys, dir)
	if err == nil || absent(err) {
		return entries, nil
	}
	if info, statErr := fs.Stat(fsys, dir); statErr == nil && !info.IsDir() {
		return nil, nil
	}
	return nil, reason(err)
}

// absent reports whether an error means that a name does not exist: it is missing, or its parent is a file.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// reason returns an error of a file system without the operation and the path.
func reason(err error) error {
	if wrapped, ok := errors.AsType[*fs.PathError](err); ok {
		return wrapped.Err
	}
	return err
}

// failed adds the name of the file to an error.
func failed(name string, err error) error {
	return fmt.Errorf("%s cannot be read (%w)", name, err)
}

// printable returns a name without characters that affect a terminal or a log.
func printable(name string) string {
	quoted := strconv.Quote(name)
	return quoted[1 : len(quoted)-1]
}
