// BullMQ can keep its queues in Postgres and names `pg` as an optional peer. Onward's do not, and a worker or gateway must not have a
// database driver anywhere in its tree (docs/decisions/0001).
module.exports = {
  hooks: {
    readPackage(pkg) {
      if (pkg.name === 'bullmq') {
        delete pkg.peerDependencies?.pg;
        delete pkg.peerDependenciesMeta?.pg;
      }
      return pkg;
    },
  },
};
