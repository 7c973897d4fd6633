/**
 * A command by which a library begins or ends its transactions. Here they may be parts of one of
 * ours, so they are understood and not just passed on.
 */
export type TransactionCommand =
  | { readonly kind: 'begin'; readonly modes: string }
  | { readonly kind: 'commit' | 'rollback' }
  | { readonly kind: 'savepoint' | 'release' | 'rollback-to'; readonly name: string };

const BEGINS_LIKE_ONE =
  /^\s*(?:begin|start\s+transaction|commit|end|rollback|abort|savepoint|release|prepare\s+transaction)\b/i;

const NAME = String.raw`(?<name>"(?:[^"]|"")+"|[\w$]+)`;
const WORK = String.raw`(?:\s+(?:work|transaction))?`;
const FORMS: readonly (readonly [TransactionCommand['kind'], RegExp])[] = [
  [
    'begin',
    new RegExp(
      String.raw`^(?:begin${WORK}|start\s+transaction)(?:\s+(?<modes>[a-z][a-z,\s]*))?$`,
      'i',
    ),
  ],
  ['commit', new RegExp(`^(?:commit|end)${WORK}$`, 'i')],
  ['rollback', new RegExp(`^(?:rollback|abort)${WORK}$`, 'i')],
  ['savepoint', new RegExp(String.raw`^savepoint\s+${NAME}$`, 'i')],
  ['release', new RegExp(String.raw`^release\s+(?:savepoint\s+)?${NAME}$`, 'i')],
  ['rollback-to', new RegExp(String.raw`^rollback${WORK}\s+to\s+(?:savepoint\s+)?${NAME}$`, 'i')],
];

/**
 * Reads a command; undefined for every other statement.
 *
 * @throws {Error} Where a command comes together with others, or in a form that cannot be a part of
 *   a transaction.
 */
export function transactionCommand(text: string): TransactionCommand | undefined {
  if (!BEGINS_LIKE_ONE.test(text)) return undefined;
  const command = text.trim().replace(/[;\s]+$/, '');
  for (const [kind, form] of FORMS) {
    const groups = form.exec(command)?.groups ?? (form.test(command) ? {} : undefined);
    if (groups) return commandOf(kind, groups);
  }
  throw new Error(
    `"${command.slice(0, 40)}" cannot be handled here. Send begin, commit, rollback and savepoints one by one.`,
  );
}

function commandOf(
  kind: TransactionCommand['kind'],
  groups: Readonly<Record<string, string | undefined>>,
): TransactionCommand {
  if (kind === 'begin') return { kind, modes: groups['modes'] ?? '' };
  if (kind === 'commit' || kind === 'rollback') return { kind };
  return { kind, name: plainName(groups['name'] ?? '') };
}

function plainName(name: string): string {
  return name.startsWith('"') ? name.slice(1, -1) : name.toLowerCase();
}
