// Package image is the image service: the part of the OpenStack Image API v2 that clouds without Glance need. It has no
// code; its packages are:
//
//	store      images as files in a directory
//	policies   names and defaults of the policy rules: Glance's
//	server     the Image API
package image
