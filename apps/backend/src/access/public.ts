import { SetMetadata } from '@nestjs/common';

export const IS_PUBLIC = 'onward:is-public';

/** Marks a route, or all routes of a controller, as open to callers without a key. Every other one demands a key. */
export const Public = () => SetMetadata(IS_PUBLIC, true);
