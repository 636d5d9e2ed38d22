import type { PreparedMessage } from '@onward/contracts/mail';

/** A message as the backend prepares it. */
export function messageOf(over: Partial<PreparedMessage> = {}): PreparedMessage {
  return {
    messageId: '0190c0de-0000-7000-8000-000000000001',
    try: 1,
    messageIdHeader: '<0190c0de.1@onward.example.test>',
    from: { name: 'Onward', address: 'news@onward.example.test' },
    to: { name: 'Ada', address: 'ada@example.test' },
    replyTo: null,
    subject: 'Hello',
    html: null,
    text: 'Good morning.',
    ...over,
  };
}
