// Makes `ctx`, and the clock and the random numbers that code sees. It runs before the code.
((call, members, now, seed) => {
  const Real = Date;
  function Clock(...args) {
    if (!new.target) return new Real(now).toString();
    return Reflect.construct(Real, args.length === 0 ? [now] : args, new.target);
  }
  Object.defineProperty(Clock, "name", { value: "Date" });
  Object.defineProperty(Clock, "length", { value: 7 });
  Clock.prototype = Real.prototype;
  Clock.now = () => now;
  Clock.parse = Real.parse;
  Clock.UTC = Real.UTC;
  Object.defineProperty(Real.prototype, "constructor", { value: Clock, writable: true, configurable: true });
  Object.defineProperty(globalThis, "Date", { value: Clock, writable: true, configurable: true });

  let [a, b, c, d] = seed;
  const next = () => {
    const t = (a + b + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (((c << 21) | (c >>> 11)) + t) | 0;
    return t >>> 0;
  };
  Math.random = () => (next() * 2097152 + (next() >>> 11)) / 9007199254740992;

  const ctx = {};
  for (const path of members) {
    const names = path.split(".");
    const last = names.pop();
    let at = ctx;
    for (const name of names) at = at[name] ??= {};
    at[last] = (...args) => call(path, args);
  }
  return ctx;
})
