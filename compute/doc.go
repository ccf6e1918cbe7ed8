// Package compute is the house that knows what a server needs and where it shall lie.
package compute
