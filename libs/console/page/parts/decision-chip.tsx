import type { ReactNode } from 'react';
import type { Decision } from '@toolloop/protocol';
import { useConsole } from '../shell/console-context.js';

const TONES = { allow: 'effect-read_only', deny: 'danger', require_approval: 'caution' } as const;

/** A decision of policy, with its rule. */
export function DecisionChip({
  decision: { kind, rule },
}: {
  readonly decision: Decision;
}): ReactNode {
  const { t } = useConsole().words;
  return (
    <span className={`chip ${TONES[kind]}`} title={rule}>
      {t(`decision.${kind}`)} · {rule}
    </span>
  );
}
