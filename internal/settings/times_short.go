//go:build testtimes

package settings

// times are the Times of settings that are read: short ones, in a program that tests build.
var times = TestTimes()
