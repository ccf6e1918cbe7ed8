package settings

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/openberth/berth/fault"
)

// PlacementFiles are the configuration files of placement when the command line names none: placement.conf and then placement.conf.d/*.conf, as
// far as they are there, in the directory of OS_PLACEMENT_CONFIG_DIR or else in /etc/placement. As in the original, a directory that is
// given by name has to have a placement.conf.
func PlacementFiles() ([]string, error) {
	return placementFiles(os.Getenv("OS_PLACEMENT_CONFIG_DIR"), "/etc/placement")
}

func placementFiles(given, usual string) ([]string, error) {
	const op = "settings.PlacementFiles"
	dir := given
	if dir == "" {
		dir = usual
	}
	var files []string
	main := filepath.Join(dir, "placement.conf")
	switch _, err := os.Stat(main); {
	case err == nil:
		files = append(files, main)
	case given != "":
		return nil, fault.New(fault.NotFound, op, "OS_PLACEMENT_CONFIG_DIR=%s: %w; name a directory with a placement.conf, or unset it", given, err)
	case !os.IsNotExist(err):
		return nil, fault.New(fault.Invalid, op, "cannot look at %s: %w", main, err)
	}
	more, err := filepath.Glob(filepath.Join(dir, "placement.conf.d", "*.conf"))
	if err != nil {
		return nil, fault.New(fault.Invalid, op, "%s: %w", dir, err)
	}
	slices.Sort(more)
	return append(files, more...), nil
}
