/**
 * Ports that are refused unless the allow-list names them: services that are not HTTP and can be talked into something by an HTTP request
 * (the list of the Fetch standard, "block a request for a bad port"), databases, queues and control sockets, and Onward's own RPC port.
 */
const REFUSED_PORTS: ReadonlySet<number> = new Set([
  // Fetch standard, "port blocking"
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137,
  139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049,
  3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
  // databases, caches, queues
  1433, 1521, 3306, 5432, 5433, 6379, 6380, 6432, 9042, 11211, 26379, 27017, 5671, 5672, 9092,
  // control: SMB, RDP, VNC, Docker, etcd, kubelet, SMTP's alternative port
  445, 3389, 5900, 2375, 2376, 2379, 2380, 10250, 2525,
  // the internal RPC between backend and workers
  3103,
]);

/** True when `port` needs an allow-list entry that names it. */
export function isPortRefused(port: number): boolean {
  return REFUSED_PORTS.has(port);
}
