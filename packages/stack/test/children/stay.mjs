// Says that it is up and stays; ends politely at SIGTERM unless told to be stubborn.
// usage: node stay.mjs [stubborn]
process.on('SIGTERM', () => {
  process.stdout.write('asked to end\n');
  if (process.argv[2] !== 'stubborn') process.exit(0);
});
process.stdout.write(`up as ${process.pid}\n`);
setInterval(() => {}, 60_000);
