// Says that it is up and stays for three minutes; ends politely at SIGTERM unless told to be stubborn.
// usage: node stay.mjs [stubborn]
process.on('SIGTERM', () => {
  process.stdout.write('asked to end\n');
  if (process.argv[2] !== 'stubborn') process.exit(0);
});
process.stdout.write(`up as ${process.pid}\n`);
setTimeout(() => process.exit(1), 180_000); // longer than any test: whoever is forgotten, by a test that failed or was killed, ends by itself
