import {
  type JsonObject,
  type JsonValue,
  type ToolPresentation,
  visible,
} from '@toolloop/protocol';

/** The name of a tool for people: its declaration's, or the last part of its id in words. */
export function nameOf(tool: string, presentation?: ToolPresentation): string {
  if (presentation?.label !== undefined) return presentation.label;
  const last = tool.split(tool.includes('__') ? '__' : '_').at(-1) ?? tool;
  const words = last
    .replaceAll(/([a-z\d])([A-Z])/g, '$1 $2')
    .replaceAll('_', ' ')
    .trim()
    .toLowerCase();
  return visible(words === '' ? tool : words.charAt(0).toUpperCase() + words.slice(1));
}

/** The part of a tool's id by which it is grouped where nothing else says whose it is. */
export function spaceOf(tool: string): string {
  return tool.includes('__') ? (tool.split('__').at(-2) ?? tool) : (tool.split('_')[0] ?? tool);
}

const MOST_VALUES = 3;
const LONGEST_VALUE = 48;

/** The first arguments in one line. */
export function summaryOf(args: JsonObject | undefined): string {
  const entries = Object.entries(args ?? {}).filter(
    ([, value]) => value !== null && typeof value !== 'object',
  );
  return entries
    .slice(0, MOST_VALUES)
    .map(([name, value]) => visible(`${name}: ${cut(textOf(value))}`))
    .join(' · ');
}

export function textOf(value: JsonValue | undefined): string {
  return typeof value === 'string' ? value : JSON.stringify(value ?? null);
}

function cut(text: string): string {
  return text.length > LONGEST_VALUE
    ? `${text.slice(0, LONGEST_VALUE).replace(/[\ud800-\udbff]$/, '')}…`
    : text;
}

/** The items by a key, in the order in which the keys came. */
export function grouped<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
): ReadonlyMap<string, readonly Item[]> {
  const groups = new Map<string, Item[]>();
  for (const item of items) groups.set(keyOf(item), [...(groups.get(keyOf(item)) ?? []), item]);
  return groups;
}
