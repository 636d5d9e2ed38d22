/** F73 at its full length: Postgres stopped for a minute, read-only for half of one. */
import '../test/postgres-away.test.js';
