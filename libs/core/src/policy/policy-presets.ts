import type { Policy } from '../protocol/policy.js';

/** Policies to begin with. Each is plain data: spread one to change it. */
export const policies = {
  /** Every trusted tool that only reads. */
  readOnly: { version: 'preset:read-only', allow: ['*'], effects: ['read_only'] },
  /** Every trusted tool; what changes anything needs a person's approval. */
  approveWrites: {
    version: 'preset:approve-writes',
    allow: ['*'],
    requireApproval: [{ effects: ['state_change', 'external_side_effect'] }],
  },
  /** Every trusted tool, at once, wherever the information comes from. For prototypes. */
  allowAll: { version: 'preset:allow-all', allow: ['*'], flow: 'off' },
} as const satisfies Record<string, Policy>;
