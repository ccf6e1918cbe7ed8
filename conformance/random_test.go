package conformance

import _ "pgregory.net/rapid"
