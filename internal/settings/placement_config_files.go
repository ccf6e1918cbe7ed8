package settings

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/openberth/berth/fault"
)

// PlacementFiles returns the configuration files of Placement if the command line names none: placement.conf and then
// placement.conf.d/*.conf, if they exist, in the directory OS_PLACEMENT_CONFIG_DIR or in /etc/placement. As in
// OpenStack's Placement, a directory given by OS_PLACEMENT_CONFIG_DIR must have a placement.conf (fault.NotFound).
func PlacementFiles() ([]string, error) {
	return placementFiles(os.Getenv("OS_PLACEMENT_CONFIG_DIR"), "/etc/placement")
}

func placementFiles(given, standard string) ([]string, error) {
	dir := given
	if dir == "" {
		dir = standard
	}
	var files []string
	main := filepath.Join(dir, "placement.conf")
	switch _, err := os.Stat(main); {
	case err == nil:
		files = append(files, main)
	case given != "":
		return nil, fault.New(fault.NotFound, "OS_PLACEMENT_CONFIG_DIR=%s: %w; name a directory with a placement.conf, "+
			"or unset it", given, err)
	case !os.IsNotExist(err):
		return nil, fault.New(fault.Invalid, "cannot read %s: %w", main, err)
	}
	more, err := filepath.Glob(filepath.Join(dir, "placement.conf.d", "*.conf"))
	if err != nil {
		return nil, fault.New(fault.Invalid, "%s: %w", dir, err)
	}
	slices.Sort(more)
	return append(files, more...), nil
}
