# A worker: drives runs. Has no database and no port; run as many as there is work.
# Build from the root of the repository:  docker build -f deploy/automation-worker.Dockerfile -t onward-automation-worker .

FROM node:24-slim AS build
ENV CI=true TURBO_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1
WORKDIR /build
RUN npm install --global pnpm@12.4.2
# The packages of the lock file change less often than the source: they make a layer of their own.
COPY pnpm-lock.yaml pnpm-workspace.yaml package.json .pnpmfile.cjs ./
RUN pnpm fetch
COPY . .
RUN pnpm install --frozen-lockfile --offline --filter "@onward/automation-worker..." \
 && pnpm --filter "@onward/automation-worker..." run build \
 && pnpm --filter "@onward/automation-worker" --prod --offline deploy /app

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build --chown=root:root /app ./
# The image's own unprivileged account; it can write nowhere in /app.
USER node
STOPSIGNAL SIGTERM
CMD ["node", "--enable-source-maps", "dist/main.js"]
