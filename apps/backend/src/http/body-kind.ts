import { SetMetadata } from '@nestjs/common';

/** What a route takes as its body. JSON unless a route says otherwise; sizes are of the unpacked body, in bytes. */
export type BodyKind = { kind: 'json' | 'csv'; limitBytes: number };

export const JSON_BODY: BodyKind = { kind: 'json', limitBytes: 256 * 1024 };
/** A list of up to 500 things, each of some KB. */
export const BATCH_BODY: BodyKind = { kind: 'json', limitBytes: 5 * 1024 * 1024 };
export const CSV_BODY: BodyKind = { kind: 'csv', limitBytes: 10 * 1024 * 1024 };

export const BODY_KIND = 'onward:body-kind';

/** Marks a route that takes another kind of body than JSON of up to 256 KB. */
export const TakesBody = (kind: BodyKind) => SetMetadata(BODY_KIND, kind);
