package catalog

import (
	"crypto/rsa"
	"math/big"
	"strings"
	"testing"
)

// TestPublicLine compares the encoding of a public key with that of ssh-keygen.
func TestPublicLine(t *testing.T) {
	const modulus = "" +
		"F251C02AA8E2DB72686A194B59D4F50AA8A77CEE06B8FEFDEF93180830385EB3DD917ACD2FCF4662341672FF1AA81642F2C7" +
		"848DBB3CE8CFDE58DC364E0DE0905E167AE746B9C0A3CFA7781B3C99709D83E10ED8D58AA5A9C18AC1E438FB7383A68BB0FF" +
		"DAD4C2BE0AACE0C1178782B2CB4CE0FA89AF5ED1E5DDEACF34A6076D"
	const want = "ssh-rsa " +
		"AAAAB3NzaC1yc2EAAAADAQABAAAAgQDyUcAqqOLbcmhqGUtZ1PUKqKd87ga4/v3vkxgIMDhes92Res0vz0ZiNBZy/xqoFkLyx4SN" +
		"uzzoz95Y3DZODeCQXhZ650a5wKPPp3gbPJlwnYPhDtjViqWpwYrB5Dj7c4Omi7D/2tTCvgqs4MEXh4Kyy0zg+omvXtHl3erPNKYH" +
		"bQ=="
	n, ok := new(big.Int).SetString(modulus, 16)
	line, err := publicLine(&rsa.PublicKey{N: n, E: 65537})
	if line, _, _ = strings.Cut(line, " Generated"); !ok || line != want || err != nil {
		t.Errorf("%s, want %s: %v", line, want, err)
	}
}
