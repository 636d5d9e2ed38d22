/** kill -9 in the middle of flushes, with bigger bursts and ten seeds. */
import '../test/killed-flushes.test.js';
