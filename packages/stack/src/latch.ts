/** Something that opens once and stays open; `opened` resolves for everybody who waits, before or after. */
export type Latch = { readonly opened: Promise<void>; open(): void };

export function createLatch(): Latch {
  let open = (): void => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open: () => open() };
}
