package sqldb

import (
	"errors"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

// IsUnspeakable reports whether a value of a statement is a text that the database cannot store or compare: NUL on
// PostgreSQL, and characters beyond the first 65,536 in MariaDB's and MySQL's tables of the character set utf8mb3.
func IsUnspeakable(err error) bool {
	if e, ok := errors.AsType[*mysql.MySQLError](err); ok {
		// ER_TRUNCATED_WRONG_VALUE_FOR_FIELD, ER_CANT_AGGREGATE_2COLLATIONS and its variants for more operands,
		// MySQL's ER_CANNOT_CONVERT_STRING
		return e.Number == 1366 || e.Number == 1267 || e.Number == 1270 || e.Number == 1271 || e.Number == 3988
	}
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == "22021" || e.Code == "22P05") // character_not_in_repertoire, untranslatable_character
}
