import { type ReactNode, useCallback, useRef } from 'react';
import { useVirtualizer } from '@tanstack/react-virtual';

interface VirtualListProps<Item> {
  readonly items: readonly Item[];
  readonly rowHeight: number;
  readonly label: string;
  readonly keyOf: (item: Item) => string | number;
  readonly children: (item: Item, index: number) => ReactNode;
}

/** A list of which only the rows in sight are in the document, however long it is. */
export function VirtualList<Item>({
  items,
  rowHeight,
  label,
  keyOf,
  children,
}: VirtualListProps<Item>): ReactNode {
  const frame = useRef<HTMLDivElement>(null);
  // A new function would have the places of all rows counted again at each scroll.
  const getItemKey = useCallback(
    (index: number) => {
      const item = items[index];
      return item === undefined ? index : keyOf(item);
    },
    [items, keyOf],
  );
  const rows = useVirtualizer({
    count: items.length,
    getScrollElement: () => frame.current,
    estimateSize: () => rowHeight,
    overscan: 12,
    getItemKey,
  });
  return (
    <div ref={frame} className="virtual" tabIndex={0} role="group" aria-label={label}>
      <ul style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map(({ key, index, start }) => {
          const item = items[index];
          return (
            <li
              key={key}
              data-index={index}
              ref={rows.measureElement}
              style={{ transform: `translateY(${start}px)` }}
            >
              {item === undefined ? null : children(item, index)}
            </li>
          );
        })}
      </ul>
    </div>
  );
}
