import { useSyncExternalStore } from "react";

/** A value outside of components, which are drawn again when it changes. */
export class Store<T> {
  private readonly listeners = new Set<() => void>();

  constructor(private value: T) {}

  readonly read = (): T => this.value;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => void this.listeners.delete(listener);
  };

  set(value: T): void {
    this.value = value;
    this.listeners.forEach((listener) => listener());
  }
}

/** Returns the present value of a store. */
export function useStore<T>({ subscribe, read }: Store<T>): T {
  return useSyncExternalStore(subscribe, read);
}
