/** A template that cannot be read or filled. `line` counts from 1 and is null when no one line is to blame. The message is for people. */
export class TemplateError extends Error {
  constructor(
    message: string,
    readonly line: number | null = null,
  ) {
    super(line === null ? message : `line ${line}: ${message}`);
    this.name = 'TemplateError';
  }
}
