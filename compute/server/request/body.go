package request

import (
	"github.com/openberth/berth/api/rest"
)

// The maximum size of a request body, in bytes. The report of a large host has thousands of devices.
const (
	MaxBody   = 1 << 20
	MaxReport = rest.MaxBody

	BodyBudget = 2 * MaxReport // of all bodies that are read and handled at the same time
)
