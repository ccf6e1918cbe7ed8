//go:build !testtimes

package settings

// times are the Times of settings that are read.
var times Times
