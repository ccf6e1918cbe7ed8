package hypervisor

// ImageCacher is implemented by drivers that keep copies of images on the host.
type ImageCacher interface {
	// ImageCache returns the last known size of all copies; known is false if it is not known now. It does not wait,
	// because the agent calls it for each sign of life.
	ImageCache() (size ImageCache, known bool)
}

// ImageCache is the size of the copies of images on a host, in bytes.
type ImageCache struct {
	Bytes int64 // that they take on the disk
	Limit int64 // that they may take; 0: no limit
}
