/** A value that stands in a request as `placeholder` (letters and digits). `name` is shown to people; `origins`, as `URL.origin` has them, are where it may go. */
export type SecretValue = { readonly placeholder: string; readonly name: string; readonly value: string; readonly origins: readonly string[] };
