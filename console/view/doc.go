// Package view makes what the console shows from what was read of a cloud: rows, cells, drawings and sentences as
// values. The templates of package console print them.
package view
