package compute

// KeyPair is a key pair of a user. Nil pointers leave their keys out: those that the request or the microversion does
// not include.
type KeyPair struct {
	Name        string  `json:"name"`
	Type        string  `json:"type,omitempty"` // 2.2: ssh
	PublicKey   string  `json:"public_key"`
	Fingerprint string  `json:"fingerprint"`           // MD5 of the key, as hexadecimal bytes with colons
	UserID      string  `json:"user_id,omitempty"`     // not in lists
	PrivateKey  *string `json:"private_key,omitempty"` // only in the response that creates it; Berth does not store it
	*KeyPairDetails
}

// KeyPairDetails are the fields of one key pair that lists do not have.
type KeyPairDetails struct {
	ID      int64   `json:"id"`
	Created string  `json:"created_at"` // 2006-01-02T15:04:05.000000
	Updated *string `json:"updated_at"` // null: a key pair does not change
	Deleted bool    `json:"deleted"`    // false: a deleted key pair is not kept
	Ended   *string `json:"deleted_at"` // null
}
