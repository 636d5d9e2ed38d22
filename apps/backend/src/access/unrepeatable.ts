import { SetMetadata } from '@nestjs/common';

export const IS_UNREPEATABLE = 'onward:is-unrepeatable';

/** Marks a POST route whose answer must not be kept (it shows a secret), so that it takes no Idempotency-Key. */
export const Unrepeatable = () => SetMetadata(IS_UNREPEATABLE, true);
