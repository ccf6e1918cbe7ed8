package conductor

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"testing"

	"github.com/openberth/berth/api/network"
	"github.com/openberth/berth/api/rest"
	"github.com/openberth/berth/bandwidth"
	"github.com/openberth/berth/compute/lifecycle"
	"github.com/openberth/berth/internal/databases"
	"github.com/openberth/berth/network/operations"
	networkserver "github.com/openberth/berth/network/server"
	networkstore "github.com/openberth/berth/network/store"
	"github.com/openberth/berth/provider"
	"github.com/openberth/berth/resource"
	"github.com/openberth/berth/sqldb"
)
