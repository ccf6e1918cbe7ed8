// Package guide has the chapter of the operator's guide that the program prints with its options.
package guide

import _ "embed" // for Options

// Options is the chapter on options: an item for each one, or for several that belong together.
//
//go:embed options.md
var Options string
