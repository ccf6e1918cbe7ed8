// Package record converts compute's records: between values and the texts that are stored, and between values and what
// agents send and get.
package record
