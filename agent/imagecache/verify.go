package imagecache

import (
	"crypto/md5"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"hash"
	"io"
	"os"
	"strings"

	"github.com/openberth/berth/api/image"
	"github.com/openberth/berth/fault"
)

// hashes are the algorithms of os_hash_algo.
var hashes = map[string]func() hash.Hash{"sha512": sha512.New, "sha256": sha256.New, "md5": md5.New,
	"sha384": sha512.New384}

// verify compares a file with the size and the checksum of an image, and returns its SHA-512 sum. An image without a
// known checksum is accepted: the image service did not compute one. The fault is Unavailable: the transfer may have
// been disturbed.
func verify(meta image.Image, path string) (sha512Sum string, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	defer f.Close()
	status, err := f.Stat()
	if err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	if meta.Size > 0 && status.Size() != meta.Size {
		return "", fault.New(fault.Unavailable, "the image %s has %d bytes, and %d were received", meta.ID, meta.Size,
			status.Size())
	}
	algorithm, want := meta.HashAlgo, meta.HashValue
	if hashes[algorithm] == nil || want == "" {
		algorithm, want = "md5", meta.Checksum
	}
	own, sum := sha512.New(), hashes[algorithm]()
	if _, err := io.Copy(io.MultiWriter(own, sum), f); err != nil {
		return "", fault.Wrap(fault.Unavailable, err)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); want != "" && !strings.EqualFold(got, want) {
		return "", fault.New(fault.Unavailable, "the image %s has the %s checksum %s, and what was received has %s",
			meta.ID, algorithm, want, got)
	}
	return hex.EncodeToString(own.Sum(nil)), nil
}
