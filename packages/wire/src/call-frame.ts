import { FRAME_PATTERN, type Frame, type FrameReply, type PatternRequest } from '@onward/contracts/frame';
import type { BackendClient, CallOptions } from './client.js';

/** Sends a frame. Its items are written with the types of their patterns; on the wire they are JSON like everything else. */
export async function callFrame(client: Pick<BackendClient, 'call'>, frame: Frame, options?: CallOptions): Promise<FrameReply> {
  return client.call(FRAME_PATTERN, frame as PatternRequest<typeof FRAME_PATTERN>, options);
}
