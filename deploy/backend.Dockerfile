# The backend: HTTP for people on 3000, TCP for workers and gateways on 3103. Needs PostgreSQL and Valkey.
# Build from the root of the repository:  docker build -f deploy/backend.Dockerfile -t onward-backend .

FROM node:24-slim AS build
ENV CI=true TURBO_TELEMETRY_DISABLED=1 DO_NOT_TRACK=1
WORKDIR /build
RUN npm install --global pnpm@12.4.2
# The packages of the lock file change less often than the source: they make a layer of their own.
COPY pnpm-lock.yaml pnpm-workspace.yaml package.json .pnpmfile.cjs ./
RUN pnpm fetch
COPY . .
RUN pnpm install --frozen-lockfile --offline --filter "@onward/backend..." \
 && pnpm --filter "@onward/backend..." run build \
 && pnpm --filter "@onward/backend" --prod --offline deploy /app

FROM node:24-slim
ENV NODE_ENV=production
WORKDIR /app
COPY --from=build --chown=root:root /app ./
# The image's own unprivileged account; it can write nowhere in /app.
USER node
ENV HOST=0.0.0.0 PORT=3000 BACKEND_MICROSERVICE_HOST=0.0.0.0 BACKEND_MICROSERVICE_PORT=3103
EXPOSE 3000 3103
HEALTHCHECK --interval=5s --timeout=3s --start-period=60s --retries=3 \
  CMD ["node", "-e", "fetch(`http://127.0.0.1:${process.env.PORT}/health/ready`).then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
STOPSIGNAL SIGTERM
CMD ["node", "--enable-source-maps", "dist/main.js"]
