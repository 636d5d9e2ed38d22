/** The table of lost calls at burst load: every fault of the wire, ten seeds. */
import '../test/lost-calls-under-load.test.js';
