/** Where a part of the stack reports, one line a call, without a line end. */
export type Log = (line: string) => void;

/** For callers that want silence. */
export const ignoreLog: Log = () => {};
