// Package vfguest is a test that runs inside the lab: Berth's services with VFs that are network interfaces. The test
// TestVFsOfPorts of package lab compiles it, boots the lab with it, and prints its output.
package vfguest
